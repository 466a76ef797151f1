sum=$(sh add.sh 2 3)
[ "$sum" = 5 ] && echo ok && exit
echo "2 + 3 is $sum"
exit 1
